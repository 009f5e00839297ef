CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO cursorDiskKV VALUES ('composerData:c-main', '{"composerId": "c-main", "createdAt": 1767225600000, "lastUpdatedAt": 1767225660000, "fullConversationHeadersOnly": [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}], "name": "Main", "subComposerIds": ["c-sub"]}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-main:b1', '{"bubbleId": "b1", "type": 1, "text": "Ask someone"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-main:b2', '{"bubbleId": "b2", "type": 2, "text": "It says 7."}');
INSERT INTO cursorDiskKV VALUES ('composerData:c-sub', '{"composerId": "c-sub", "createdAt": 1767225600000, "lastUpdatedAt": 1767225660000, "fullConversationHeadersOnly": [{"bubbleId": "s1", "type": 1}, {"bubbleId": "s2", "type": 2}]}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-sub:s1', '{"bubbleId": "s1", "type": 1, "text": "3 + 4?"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-sub:s2', '{"bubbleId": "s2", "type": 2, "text": "7"}');
