CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO cursorDiskKV VALUES ('composerData:c-bad', '{oops');
INSERT INTO cursorDiskKV VALUES ('composerData:c-dmg', '{"composerId": "c-dmg", "createdAt": "never", "lastUpdatedAt": 1767225660000, "fullConversationHeadersOnly": [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}, {"bubbleId": "b3", "type": 2}]}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-dmg:b1', '{"bubbleId": "b1", "type": 1, "text": "Still here", "createdAt": "yesterday"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-dmg:b2', '{oops');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-dmg:b3', '{"bubbleId": "b3", "type": 2, "text": "and here", "thinking": 5, "toolFormerData": "x", "tokenCount": {"inputTokens": "many", "outputTokens": 1}}');
